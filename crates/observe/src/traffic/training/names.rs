//! Names of operations and element types in PyTorch and NCCL.

use hopbyte_fabric::collective::Collective;

/// An operation by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Collective(Collective),
    Send,
    Receive,
    /// Moves no data of its own: waits, set-up, and the brackets of coalesced calls.
    Nothing,
}

/// The operation of a name as PyTorch (`c10d`) or NCCL writes it; `None` for others.
pub(super) fn operation(name: &str) -> Option<Operation> {
    let name = name.split_once(':').map_or(name, |(_, rest)| rest);
    let name = name.split_whitespace().next().unwrap_or_default();
    let plain: String = name
        .to_ascii_lowercase()
        .chars()
        .filter(|&c| c != '_')
        .collect();
    let plain = plain.trim_end_matches("coalesced");
    Some(Operation::Collective(match plain {
        "allreduce" | "allreducesparse" => Collective::Allreduce,
        "broadcast" | "broadcastoop" => Collective::Broadcast,
        "reduce" | "reduceoop" => Collective::Reduce,
        "allgather" | "allgatherbase" | "allgatherintotensor" | "allgatherv" => {
            Collective::Allgather
        }
        "reducescatter" | "reducescatterbase" | "reducescattertensor" => Collective::ReduceScatter,
        "gather" => Collective::Gather,
        "scatter" => Collective::Scatter,
        "alltoall" | "alltoallbase" | "alltoallv" | "alltoallsingle" => Collective::Alltoall,
        "barrier" | "allreducebarrier" | "monitoredbarrier" => Collective::Barrier,
        "send" => return Some(Operation::Send),
        "recv" | "receive" => return Some(Operation::Receive),
        "wait" | "init" | "comminit" | "" => return Some(Operation::Nothing),
        _ => return None,
    }))
}

/// Bytes of an element of PyTorch's scalar types (`c10/core/ScalarType.h`) and NCCL's.
pub(super) fn element(name: &str) -> Option<u64> {
    Some(match name.strip_prefix("nccl").unwrap_or(name) {
        "Byte" | "Char" | "Bool" | "QInt8" | "QUInt8" | "Int8" | "Uint8" => 1,
        name if name.starts_with("Float8") => 1,
        "Half" | "BFloat16" | "Short" | "UInt16" | "Float16" | "Bfloat16" => 2,
        "Float" | "Int" | "UInt32" | "QInt32" | "ComplexHalf" | "Float32" | "Int32" | "Uint32" => 4,
        "Double" | "Long" | "UInt64" | "ComplexFloat" | "Float64" | "Int64" | "Uint64" => 8,
        "ComplexDouble" => 16,
        _ => return None,
    })
}

/// The expander's size of a collective call of `n` ranks, from the bytes of a rank's input and output.
pub(super) fn size(kind: Collective, (input, output): (u64, u64), n: usize) -> u64 {
    let n = n.max(1) as u64;
    match kind {
        Collective::Barrier => 0,
        Collective::Allreduce | Collective::Broadcast | Collective::Reduce | Collective::Scan => {
            input.max(output)
        }
        Collective::Allgather | Collective::Gather if input > 0 => input,
        Collective::Allgather | Collective::Gather => output / n,
        Collective::ReduceScatter | Collective::Scatter if output > 0 => output,
        Collective::ReduceScatter | Collective::Scatter => input / n,
        Collective::Alltoall => input.max(output) / n,
    }
}
