"""What tests of word models share."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small models are many times slower on two threads than on one, if both cores are busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
