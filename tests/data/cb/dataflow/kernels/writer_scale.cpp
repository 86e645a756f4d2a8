template <uint32_t Wt, uint32_t rows>
TT_KERNEL void writer(uint32_t start) {
    const auto out = TensorAccessor(tensor::output);
    Noc noc;
    DataflowBuffer dst(dfb::dst);
    for (uint32_t row = 0; row < rows; row++) {
        dst.wait_front(Wt);
        for (uint32_t i = 0; i < Wt; i++) {
            noc.async_write(dst, out, dst.get_entry_size(), {.offset_bytes = 0}, {.page_id = start + i});
        }
        noc.async_write_barrier();
        dst.pop_front(Wt);
    }
}
