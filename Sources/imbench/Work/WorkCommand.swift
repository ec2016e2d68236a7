/// `imbench work [NAME]`: does one thing that is done for each message, many times and nothing else, for profilers and for
/// scripts/guard; without a name, says what there is.
func work(_ options: Options) throws(SystemFailure) -> Int32 {
    let target = try ReportTarget(path: nil)
    guard let name = options.arguments.first else {
        let width = HotPath.all.map(\.name.count).max() ?? 0
        try target.write(HotPath.all.map { "\($0.name.padded(to: width))  \($0.summary)\n" }.joined())
        return ExitStatus.good
    }
    guard options.arguments.count == 1, let path = HotPath.all.first(where: { $0.name == name }) else {
        let known = HotPath.all.map(\.name).joined(separator: ", ")
        throw SystemFailure("work: there is no '\(options.arguments.joined(separator: " "))', but \(known)")
    }
    do {
        try path.prepare()(options.times)
    } catch {
        throw SystemFailure("work: \(name): \(error)")
    }
    return ExitStatus.good
}
