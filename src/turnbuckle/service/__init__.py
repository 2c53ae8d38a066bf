"""What every surface needs, once: runs and sessions by name. It knows no HTTP and no terminal."""
