"""What machines that share a ledger in PostgreSQL share beside money: workspace files, and which keys are revoked."""
