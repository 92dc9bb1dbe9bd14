"""What a report says of a fit, as numbers and sentences."""
