"""OpenAI Responses, and Open Responses, its vendor-neutral form."""
