"""The page that shows them."""
