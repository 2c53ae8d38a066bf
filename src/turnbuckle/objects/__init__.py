"""Where large values and kept files lie if they are not to lie in the database or on one machine."""
