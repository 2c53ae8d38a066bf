"""The Messages face: clients that speak the protocol of Anthropic's API."""
