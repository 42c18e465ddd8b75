"""OpenAI's Responses API: chat requests become its requests, and its answers become chat answers. Pure."""
