void scale_row(uint32_t n, DataflowBuffer& in, DataflowBuffer& out) {
    in.wait_front(n);
    out.reserve_back(n);
    for (uint32_t i = 0; i < n; i++) {
        copy_tile(dfb::src, i, 0);
        pack_tile(0, dfb::dst, i);
    }
    out.push_back(n);
    in.pop_front(n);
}

template <uint32_t Wt, uint32_t rows>
TT_KERNEL void compute() {
    DataflowBuffer src(dfb::src);
    DataflowBuffer dst(dfb::dst);
    for (uint32_t row = 0; row < rows; row++) {
        scale_row(Wt, src, dst);
    }
}
