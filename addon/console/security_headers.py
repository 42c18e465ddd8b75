"""The headers of every answer of the console: they let a browser run and load only what is its own."""

from typing import Final

from tornado.web import RequestHandler

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "X-Robots-Tag": "noindex",
    "Cache-Control": "no-store",
}


def set_headers(handler: RequestHandler) -> None:
    """Give an answer ``HEADERS``."""
    for name, value in HEADERS.items():
        handler.set_header(name, value)
    handler.clear_header("Server")
