"""Money: the steps of calls on holds, counters, rows and wallets, the same for every engine."""
