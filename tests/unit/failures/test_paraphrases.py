# SPDX-License-Identifier: Apache-2.0
"""What people write in issues and chats: a class by its words, said with its doubt."""

from __future__ import annotations

import pytest

from ttmem.failures.diagnosis.diagnose import explain

SAID = {
    "oom/*": [
        "L1 memory is not sufficient for the conv",
        "Ran into an OOM with batch 8 on N300",
        "Model goes out of memory in DRAM after 3 iterations",
        "the op could not be allocated in L1",
        "Failed to allocate 33554432 B in L1",
        "There isn't enough space in DRAM for the KV cache",
        "allocator: no room in L1 for 1 MB",
        "YOLO fails with L1 OOM",
        "Insufficient L1 memory",
        "memory allocation failure on device DRAM",
        "resnet50 exceeds available DRAM",
        "Not enough memory on device",
        "Out-of-memory while running prefill 32k",
        "it needs 2 GB of DRAM but only 500 MB is free",
        "bank manager: not enough space to allocate buffer",
        "Not enough space to allocate",
        "unable to allocate DRAM buffer for weights",
        "My model OOMs on n150 when I increase the batch size",
        "we are running out of DRAM on the second layer",
        "Not enough L1 memory for this op",
        "the allocator says there is not enough space in DRAM",
        "ttnn.matmul fails to allocate its output in L1",
        "Out of memory on device when loading weights of llama 70B",
        "OOM in L1 for batch 32",
        "can't allocate a 2GB buffer in DRAM",
        "Allocation of L1 buffer failed",
        "Llama3 8B doesn't fit in DRAM on n150",
        "device out of memory",
        "hitting out-of-memory errors in DRAM with seq len 128k",
        "couldn't allocate tensor on device: no space left in L1",
        "insufficient DRAM",
        "ran out of L1 space",
        "The test is skipped: won't fit in L1",
        "each bank needs to store 274686208 B, but bank size is 1071821792 B (allocated: 784847680 B, free: 286974112",
        "where each bank needs to store 1703936 B, but bank size is only 1331936 B",
    ],
    "oom/fragmented": [
        "DRAM is fragmented, there is enough free memory but no contiguous block",
        "memory fragmentation in L1 makes the allocation fail",
        "free space is there but the largest free block is too small for DRAM buffer",
    ],
    "oom/too-big": [
        "the tensor is too large for L1",
        "this activation is bigger than a DRAM bank",
        "tensor too big for L1",
    ],
    "oom/capacity": [
        "DRAM is full after loading the weights",
        "L1 is already full",
    ],
    "oom/unconfigured": [
        "l1_small_size is 0 so conv2d fails",
        "forgot to set l1_small_size",
        "L1_SMALL was never configured",
    ],
    "buffers/overflow": [
        "Static circular buffer overflow in to_layout",
        "CB sizes exceed L1",
        "circular buffers need 2.1 MB but L1 has only 1.5 MB",
        "L1 overflow by circular buffers of layernorm",
        "statically allocated circular buffers beyond L1 size",
        "circular buffer allocation is larger than available L1",
        "ttnn.concat CB does not fit into L1",
        "CBs take more L1 than there is",
        "Statically allocated circular buffers grow beyond L1",
        "the CB region goes past the end of L1",
        "circular buffers exceed the L1 size",
        "CBs grow beyond max L1 size",
        "the circular buffers of this op are too big for L1",
        "Circular buffer size exceeds L1 capacity on core 0,0",
        "static circular buffers don't fit in L1",
        "CB allocation overflows L1",
        "circular buffers grow beyond max L1 size",
        "RuntimeError: circular buffers grow beyond max L1 size",
        "layernorm needs more circular buffer space than L1 has: CBs larger than 1.5MB L1",
        "grow to 1721472 B which is beyond max L1 size of 1499136 B",
        "beyond max L1 size of 1499136 B",
        "conv2d runs out of L1 for its circular buffers",
    ],
    "buffers/clash": [
        "Statically allocated circular buffers clash with L1 buffers",
        "L1 buffers and circular buffers clash",
        "conv2d: L1 clash with circular buffers",
        "L1 tensors and CBs are clashing on n150",
        "static circular buffers are overwriting L1 tensors",
        "circular buffer and L1 buffer regions intersect",
        "CBs clash with L1 tensors",
        "circular buffers overlap with L1 buffers",
        "static CB region collides with an L1 tensor",
        "clash with L1 buffers on core range. L1 buffer allocated at 709760 and static circular buffer region ends at",
        "I get a circular buffer clash in conv2d",
        "circular buffer conflicts with the L1 buffer of the input",
        "the dataflow buffers overlap L1 tensors",
    ],
    "buffers/config": [
        "core coordinates (9,9) out of grid bounds",
        "requested core grid 8x8 is larger than the available 8x7 grid",
        "Logical core (x=8,y=0) is outside of the logical grid",
        "Core range (0,0)-(7,7) exceeds the worker grid of n300",
        "num_cores 64 greater than grid size 56",
        "grid size mismatch: 8x8 requested, 8x7 available on device",
        "my core_grid does not exist on this harvested chip: outside grid",
        "core range is beyond the grid",
        "core (8, 0) is outside of the compute grid 8x8",
        "the core range exceeds the device grid",
        "CoreRange [0-0 - 7-8] out of range for grid 8x8",
        "program uses cores that are not in the compute grid",
        "we ask for an 8x9 core grid but the device grid is only 8x8: cores outside the grid",
        "too many circular buffers: more than 32",
        "grid (8,8) too big for n300, only 8x7 cores",
    ],
    "trace/region": [
        "Trace region size too small for llama",
        "need a bigger trace_region_size",
        "trace buffer does not fit in the trace region",
        "trace region is too small",
        "trace_region_size not enough for capture",
        "the trace buffers exceed the trace region",
    ],
    "trace/unsafe": [
        "allocating buffers while a trace is active",
        "warning about allocation with an active trace",
    ],
    "kernel/config": [
        "kernel is too large for the kernel config buffer",
        "Program size exceeds kernel config ring buffer",
        "program too large for kernel config buffer",
        "kernel config buffer overflow",
        "kernel binary size is too big",
    ],
    "kernel/args": [
        "too many runtime args for the kernel",
        "runtime arguments exceed the limit",
    ],
    "shard/spec": [
        "Shard height must be a multiple of tile height",
        "shard grid bigger than tensor: number of shards does not match cores",
        "Sharding spec invalid: shards exceed cores",
        "shard shape must be tile aligned",
        "number of shards is larger than number of cores",
        "shard width does not match tensor width",
        "invalid shard spec: shard height not a multiple of 32",
    ],
    "host/memory": [
        "Host OOM while loading weights, process killed",
        "machine has not enough RAM to load checkpoint",
        "hugepage allocation failed",
        "the container was OOMKilled",
        "CI job ended with status 137",
        "host ran out of memory while loading the checkpoint",
        "the OOM killer killed my process",
        "failed to allocate hugepages",
        "not enough host RAM",
        "process exited with status 137",
        "docker container exited with 137",
        "job failed with exit code 137 in CI",
    ],
    "lifetime/use-after-free": [
        "Buffer was deallocated but still used",
        "ttnn: input tensor has already been freed",
        "Input tensor must be allocated on device",
        "the tensor isn't allocated any more when add runs",
        "accessing freed buffer",
        "RuntimeError: Input Tensor B is not allocated",
        "operand is not allocated on device",
        "Tensor A is not allocated",
        "Input Tensor A is not allocated",
        "Input tensor B is not allocated",
        "tensor was already deallocated",
        "use after free of a ttnn tensor",
        "Operands to matmul need to be allocated in buffers on device!",
        "the input buffer has been deallocated before the op",
        "Buffer is not allocated",
        "RuntimeError: Tensor is not allocated",
        "Operand to transpose_wh needs to be allocated in a buffer on device!",
        "Input tensor must be allocated in buffers on device!",
        "trying to use a deallocated tensor",
        "Input Tensor is not allocated.",
    ],
    "crash": [
        "Getting a seg fault in ttnn.relu",
        "process died with SIGABRT",
        "python: signal 11",
        "python segfaults in ttnn.conv2d",
        "segmentation fault when calling to_torch",
        "it crashes with SIGSEGV",
        "core dumped",
    ],
    "timeout": [
        "Timeout waiting for device",
        "kernel hang on Blackhole",
        "dispatch hang in all_gather",
        "device hangs on the second iteration",
        "the op hangs forever",
        "test timed out waiting for the device",
        "ttnn.matmul never returns, device stuck",
    ],
}

HARMLESS = [
    "Memory usage looks fine",
    "The L1 size of Wormhole is 1.5 MB",
    "We allocate the tensor in L1 and free it later",
    "Circular buffers live in L1",
    "Tests pass on n150",
    "sharding improves performance",
    "I changed the core grid to 8x8",
    "deallocate the tensor after use",
    "Added a timeout option to the CLI",
    "the trace region is configured at open",
    "Why is matmul slow?",
    "kernel compiled in 3 s",
    "loaded weights into DRAM",
    "exit status 0",
    "the exit code is documented",
    "all is well",
    "how do I install ttnn?",
    "the model is fast now",
    "fixed the OOM in the last release",
    "CUDA out of memory. Tried to allocate 2 GiB",
    "what is the size of L1 on wormhole?",
    "please review my pull request about circular buffers",
    "the grid is 8x8",
    "ttnn.add works fine with sharded tensors",
    "I would like to profile the memory of my model",
    "PCC is 0.98 which is below 0.99",
    "AssertionError: shapes differ",
]


@pytest.mark.parametrize(("text", "wanted"), [(text, wanted) for wanted, texts in SAID.items() for text in texts])
def test_a_paraphrase_has_the_class_that_its_words_mean(text: str, wanted: str) -> None:
    (told,) = explain(text)
    found = told.failure.failure_class
    assert found == wanted or (wanted == "oom/*" and found.startswith("oom/"))
    assert told.remedies
    if told.failure.template == "P":
        assert told.confidence != "certain"
        assert "by-its-words" in {finding.id for finding in told.findings}


@pytest.mark.parametrize("text", HARMLESS)
def test_what_tells_of_no_failure_stays_none(text: str) -> None:
    (told,) = explain(text)
    assert told.failure.failure_class == "none"


def test_figures_of_a_partial_message_count() -> None:
    statistics = "(allocated: 784847680 B, free: 286974112 B, largest free block: 216504544 B)"
    (told,) = explain(f"each bank needs to store 274686208 B, but bank size is 1071821792 B {statistics}")
    assert (told.failure.failure_class, told.failure.numbers["largest_free"]) == ("oom/fragmented", 216504544)
    (told,) = explain("circular buffers grow to 1721472 B, beyond max L1 size of 1499136 B")
    assert (told.failure.numbers["region_end"], told.failure.numbers["l1_bytes"]) == (1721472, 1499136)
    (told,) = explain("can't allocate 2.5 GiB in L1")
    assert (told.failure.failure_class, told.failure.numbers["requested_bytes"]) == ("oom/too-big", 5 << 29)


def test_a_long_text_is_not_guessed_at() -> None:
    (told,) = explain("This design document is about memory. " * 80 + "A model may run out of DRAM.")
    assert told.failure.failure_class == "none"
