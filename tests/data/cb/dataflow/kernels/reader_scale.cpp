template <uint32_t Wt, uint32_t rows>
TT_KERNEL void reader(uint32_t start) {
    const auto in = TensorAccessor(tensor::input);
    Noc noc;
    DataflowBuffer src(dfb::src);
    for (uint32_t row = 0; row < rows; row++) {
        src.reserve_back(Wt);
        for (uint32_t i = 0; i < Wt; i++) {
            noc.async_read(in, src, src.get_entry_size(), {.page_id = start + i}, {.offset_bytes = 0});
        }
        noc.async_read_barrier();
        src.push_back(Wt);
    }
}
