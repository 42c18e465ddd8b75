"""Reports on calls, wallets and limits, as commands and pages show them."""
