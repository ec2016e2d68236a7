import Glibc

/// The target that FUZZ_TARGET names: one executable serves all, since it takes minutes to build with the sanitizers.
private let target: FuzzTarget = {
    let name = getenv("FUZZ_TARGET").map { String(cString: $0) } ?? ""
    guard let target = FuzzTarget.all.first(where: { $0.name == name }) else {
        let names = FuzzTarget.all.map(\.name).joined(separator: " ")
        fatalError("FUZZ_TARGET must be one of: \(names)")
    }
    return target
}()

/// What libFuzzer calls with each input; traps if the target finds something wrong.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzTestOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    do {
        try target.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
    } catch {
        fatalError("\(target.name): \(error)")
    }
    return 0
}
