"""The checks that rows, sums, wallets and prices agree."""
