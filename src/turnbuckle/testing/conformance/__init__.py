"""What every body of a port must do, as functions that any body can be put through."""
