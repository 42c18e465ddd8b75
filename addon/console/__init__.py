"""The console: pages of the admin port that show spend, calls and limits. Source: docs/console.md."""
