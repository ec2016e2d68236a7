import Glibc

/// The target that FUZZ_TARGET names. One executable contains all targets, because building with the sanitizers takes
/// minutes.
private let target: FuzzTarget = {
    let name = getenv("FUZZ_TARGET").map { String(cString: $0) } ?? ""
    guard let target = FuzzTarget.all.first(where: { $0.name == name }) else {
        let names = FuzzTarget.all.map(\.name).joined(separator: " ")
        fatalError("FUZZ_TARGET must be one of: \(names)")
    }
    return target
}()

/// The function that libFuzzer calls with each input. Traps if the target finds a defect.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzTestOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    do {
        try target.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
    } catch {
        fatalError("\(target.name): \(error)")
    }
    return 0
}
