#include "compute_kernel_api.h"

namespace NAMESPACE {
void MAIN {
    constexpr uint32_t b_tiles = get_compile_time_arg_val(0);
    uint32_t a_tiles = get_arg_val<uint32_t>(0);
    constexpr auto cb_a = tt::CBIndex::c_0;
    constexpr auto cb_b = tt::CBIndex::c_1;
    constexpr auto cb_sum = tt::CBIndex::c_2;
    constexpr auto cb_out = tt::CBIndex::c_16;

    for (uint32_t i = 0; i < a_tiles; ++i) {
        cb_wait_front(cb_a, 1);
        cb_reserve_back(cb_sum, 1);
        copy_tile(cb_a, 0, 0);
        pack_tile(0, cb_sum);
        cb_push_back(cb_sum, 1);
        for (uint32_t j = 0; j < b_tiles; ++j) {
            cb_wait_front(cb_b, 1);
            cb_wait_front(cb_sum, 1);
            add_tiles(cb_sum, cb_b, 0, 0, 0);
            cb_reserve_back(cb_sum, 1);
            pack_tile(0, cb_sum);
            cb_push_back(cb_sum, 1);
            cb_pop_front(cb_sum, 1);
            cb_pop_front(cb_b, 1);
        }
        cb_wait_front(cb_sum, 1);
        cb_reserve_back(cb_out, 1);
        pack_tile(0, cb_out);
        cb_push_back(cb_out, 1);
        cb_pop_front(cb_sum, 1);
        cb_pop_front(cb_a, 1);
    }
}
}  // namespace NAMESPACE
