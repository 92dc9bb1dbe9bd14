"""f ~ GP(mu, k)"""
