"""HTTP itself: connections, requests, who asks, the table of endpoints and its document."""
