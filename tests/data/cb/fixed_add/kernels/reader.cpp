#include "dataflow_api.h"

// Each A tile is met by every B tile.
void kernel_main() {
    uint32_t a_addr = get_arg_val<uint32_t>(0);
    uint32_t b_addr = get_arg_val<uint32_t>(1);
    uint32_t a_tiles = get_arg_val<uint32_t>(2);
    uint32_t b_tiles = get_arg_val<uint32_t>(3);
    constexpr uint32_t cb_a = tt::CBIndex::c_0;
    constexpr uint32_t cb_b = tt::CBIndex::c_1;
    const InterleavedAddrGenFast<true> a = {.bank_base_address = a_addr};
    const InterleavedAddrGenFast<true> b = {.bank_base_address = b_addr};

    for (uint32_t i = 0; i < a_tiles; i++) {
        cb_reserve_back(cb_a, 1);
        noc_async_read_tile(i, a, get_write_ptr(cb_a));
        noc_async_read_barrier();
        cb_push_back(cb_a, 1);
        for (uint32_t j = 0; j < b_tiles; j++) {
            cb_reserve_back(cb_b, 1);
            noc_async_read_tile(j, b, get_write_ptr(cb_b));
            noc_async_read_barrier();
            cb_push_back(cb_b, 1);
        }
    }
}
