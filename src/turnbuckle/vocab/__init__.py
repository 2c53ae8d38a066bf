"""What may be said: frozen values shared by every layer. Nothing here does anything."""
