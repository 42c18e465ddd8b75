"""Google's native generateContent API: chat requests become its requests, and its answers become chat answers. Pure."""
