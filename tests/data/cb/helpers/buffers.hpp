#pragma once
// A project's own wrapper, in a header: calls of it are declarations.
inline CBHandle make_buffer(
    Program& program, const CoreRangeSet& cores, uint32_t index, tt::DataFormat format, uint32_t tiles) {
    const uint32_t bytes = tt::tile_size(format);
    auto config = CircularBufferConfig(tiles * bytes, {{index, format}}).set_page_size(index, bytes);
    return CreateCircularBuffer(program, cores, config);
}
