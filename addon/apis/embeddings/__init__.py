"""The embeddings API: vectors of texts, by providers that speak OpenAI's shape. Pure. Source: docs/embeddings.md."""
