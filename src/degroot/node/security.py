"""Security: mutual TLS always; without it only on loopback, and only if that is asked for."""

from dataclasses import replace

from degroot.addresses import check_loopback
from degroot.exceptions import InvalidInput
from degroot.node import identity
from degroot.node.configuration import Configuration


def check_security(configuration: Configuration, insecure_loopback: bool) -> None:
    """Refuse a node that others could mistake for another, or read along with."""
    if insecure_loopback:
        check_loopback([configuration.listen, *(peer.address for peer in configuration.peers)])
    elif configuration.identity is None:
        raise InvalidInput(
            f"{configuration.path} must have a table [identity]; without TLS a node runs only with --insecure-loopback."
        )
    else:
        identity.check(configuration.identity, configuration.name)


def secured(configuration: Configuration, insecure_loopback: bool) -> Configuration:
    """The configuration as it is run: without an identity where TLS is left out."""
    check_security(configuration, insecure_loopback)
    return replace(configuration, identity=None) if insecure_loopback else configuration
