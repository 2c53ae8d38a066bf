"""The runtime behind HTTP. Nothing here touches a live model stream: every answer is read from the
journal."""
