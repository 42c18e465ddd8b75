"""The ledger's SQLite file: its tables, its rows, its reports and its verification."""
