"""Whether anybody listens where a broker should be: what the fast fence asks before it fences (rule C2)."""

import asyncio

from tidelog.client.addresses import Address
from tidelog.client.errors import is_refused
from tidelog.controller.fast_fence import DialOutcome


async def dial(loop: asyncio.AbstractEventLoop, address: Address, timeout_s: float) -> DialOutcome:
    """Connects and hangs up. Only a refusal is evidence: a network that is down tells nothing of the process."""
    try:
        async with asyncio.timeout(timeout_s):
            transport, _ = await loop.create_connection(asyncio.Protocol, address.host, address.port)
    except TimeoutError:
        return DialOutcome.SILENT
    except OSError as error:
        return DialOutcome.REFUSED if is_refused(error) else DialOutcome.SILENT
    own = transport.get_extra_info("sockname")
    other = transport.get_extra_info("peername")
    transport.abort()
    # A port that nobody listens on can be given to the dialling socket itself, which then reaches itself.
    return DialOutcome.REFUSED if own == other else DialOutcome.REACHED
