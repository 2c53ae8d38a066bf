"""OpenAI Chat Completions, as OpenAI and everybody who claims to be compatible speak it."""
