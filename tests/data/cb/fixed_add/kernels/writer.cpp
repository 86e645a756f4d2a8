#include "dataflow_api.h"

void kernel_main() {
    uint32_t out_addr = get_arg_val<uint32_t>(0);
    uint32_t tiles = get_arg_val<uint32_t>(1);
    constexpr uint32_t cb_out = tt::CBIndex::c_16;
    const InterleavedAddrGenFast<true> out = {.bank_base_address = out_addr};
    for (uint32_t i = 0; i < tiles; ++i) {
        cb_wait_front(cb_out, 1);
        noc_async_write_tile(i, out, get_read_ptr(cb_out));
        noc_async_write_barrier();
        cb_pop_front(cb_out, 1);
    }
}
