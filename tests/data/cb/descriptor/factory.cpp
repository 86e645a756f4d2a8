// Descriptors: one literal, one filled field by field, one that may borrow, one that always does.
#include <tt-metalium/program_descriptors.hpp>

namespace my_op {
using namespace tt::tt_metal;

enum class Buffers : uint8_t { IN = 3, SCRATCH, OUT = 20 };

ProgramDescriptor Factory::create_descriptor(const Params& params, const Inputs& inputs, Tensor& output) {
    ProgramDescriptor desc;
    const auto& input = inputs.input;
    const auto format = datatype_to_dataformat_converter(input.dtype());
    const uint32_t page = tt::tile_size(format);
    const uint32_t depth = params.double_buffer ? 2 : 1;
    const CoreRangeSet cores = input.shard_spec().value().grid;
    const bool sharded = output.is_sharded();

    desc.cbs.push_back(CBDescriptor{
        .total_size = depth * params.block_tiles * page,
        .core_ranges = cores,
        .format_descriptors = {{CBFormatDescriptor{
            .buffer_index = static_cast<uint8_t>(Buffers::IN),
            .data_format = format,
            .page_size = page,
        }}},
    });

    CBDescriptor scratch;
    scratch.total_size = 2 * tt::constants::TILE_HW;
    scratch.core_ranges = cores;
    scratch.format_descriptors.push_back(CBFormatDescriptor{
        .buffer_index = static_cast<uint8_t>(Buffers::SCRATCH),
        .data_format = tt::DataFormat::UInt8,
        .page_size = tt::constants::TILE_HW,
    });
    desc.cbs.push_back(std::move(scratch));

    desc.cbs.push_back(CBDescriptor{
        .total_size = params.block_tiles * page,
        .core_ranges = cores,
        .format_descriptors = {{CBFormatDescriptor{
            .buffer_index = static_cast<uint8_t>(Buffers::OUT), .data_format = format, .page_size = page}}},
        .buffer = sharded ? output.buffer() : nullptr,
    });

    if (params.has_mask) {
        desc.cbs.push_back(CBDescriptor{
            .total_size = 64 * page,
            .core_ranges = cores,
            .format_descriptors = {{CBFormatDescriptor{.buffer_index = 21, .data_format = format, .page_size = page}}},
            .buffer = inputs.mask.buffer(),
        });
    }
    return desc;
}
}  // namespace my_op
