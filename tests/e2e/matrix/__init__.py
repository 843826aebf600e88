"""Every API in front of every upstream; what is asserted in here is told as a test's own assertions are."""

import pytest

pytest.register_assert_rewrite(f"{__name__}.features", f"{__name__}.pairing")
