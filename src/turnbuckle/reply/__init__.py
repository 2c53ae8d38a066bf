"""What a reply is and what may be done with it. Pure functions over values."""
