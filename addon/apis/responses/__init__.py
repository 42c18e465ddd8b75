"""OpenAI's Responses API, without state: its requests, its answers and its errors. Pure."""
