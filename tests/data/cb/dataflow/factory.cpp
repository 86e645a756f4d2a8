// Dataflow buffers: names instead of indices, made by a lambda; one borrows a tensor's memory.
#include <tt-metalium/experimental/metal2_host_api/program_spec.hpp>

namespace m2 = tt::tt_metal::experimental;

ProgramArtifacts Scale::create_program_artifacts(const Params& attrs, const Inputs& in, std::vector<Tensor>& out) {
    const m2::DFBSpecName SRC{"src"};
    const m2::DFBSpecName DST{"dst"};
    const m2::DFBSpecName TABLE{"table"};
    const uint32_t width_tiles = attrs.width / tt::constants::TILE_WIDTH;

    auto make_dfb = [](const m2::DFBSpecName& name, uint32_t tiles, tt::DataFormat format) {
        return m2::DataflowBufferSpec{
            .unique_id = name,
            .entry_size = tt::tile_size(format),
            .num_entries = tiles,
            .data_format_metadata = format,
        };
    };

    m2::DataflowBufferSpec table{.unique_id = TABLE, .entry_size = 512, .num_entries = 4};
    table.borrowed_from = m2::TensorParamName{"lookup"};

    m2::Group<m2::DataflowBufferSpec> dfbs = {
        make_dfb(SRC, 2 * width_tiles, tt::DataFormat::Float16_b),
        make_dfb(DST, width_tiles, tt::DataFormat::Float32),
        table,
    };

    m2::KernelSpec reader{
        .unique_id = m2::KernelSpecName{"reader"},
        .source = "scale/kernels/reader_scale.cpp",
        .dfb_bindings = {m2::DFBBinding{SRC, "src", m2::DFBEndpointType::PRODUCER}},
        .compile_time_args = {{"Wt", width_tiles}, {"rows", attrs.rows}},
    };
    m2::KernelSpec compute{
        .unique_id = m2::KernelSpecName{"compute"},
        .source = "scale/kernels/compute_scale.cpp",
        .dfb_bindings =
            {m2::DFBBinding{SRC, "src", m2::DFBEndpointType::CONSUMER},
             m2::DFBBinding{DST, "dst", m2::DFBEndpointType::PRODUCER}},
        .compile_time_args = {{"Wt", width_tiles}, {"rows", attrs.rows}},
    };
    m2::KernelSpec writer{
        .unique_id = m2::KernelSpecName{"writer"},
        .source = "scale/kernels/writer_scale.cpp",
        .dfb_bindings = {m2::DFBBinding{DST, "dst", m2::DFBEndpointType::CONSUMER}},
        .compile_time_args = {{"Wt", width_tiles}, {"rows", attrs.rows}},
    };
    return {};
}
