"""The shell: talks to mitmproxy, clocks, files and databases, and asks ``policies`` what to do."""
