import CommandSupport
import Foundation
import Measuring
import Reporting

/// Sets up all contenders of some comparisons and alternates their repetitions, so that a slow period of the machine
/// slows all of them.
final class Runner {
    private struct Entry {
        var measurement: Measurement
        var contender: (any Contender)?

        var workload: Workload { measurement.recipe.workload }
    }

    private let options: Options
    private var entries: [Entry]

    init(_ comparisons: [Comparison], _ options: Options) {
        self.options = options
        var seen: Set<String> = []
        entries = comparisons.flatMap { [$0.ours] + ($0.peer.map { [$0] } ?? []) }
            .filter { seen.insert($0.key).inserted }
            .map { Entry(measurement: Measurement(recipe: $0)) }
    }

    /// Measures all contenders. A contender that did not run has the reason in its measurement.
    func run(on stage: Stage) throws -> [Measurement] {
        for index in entries.indices {
            attempt(index) { $0.contender = try $0.measurement.recipe.open(stage) }
        }
        let waiting = options.isAwake ? entries.count { $0.workload.isWaiting } : 0
        var progress = Reporting.Progress(total: options.repeats * (entries.count + waiting), isQuiet: false)
        for turn in 0..<options.repeats where !Interruption.isRequested {
            let spinners = options.isAwake ? try AwakeSpinners() : nil
            measure(turn, &progress, \.values, isAwake: options.isAwake) { _ in true }
            spinners?.stop()
            if options.isAwake { measure(turn, &progress, \.idleValues, isAwake: false, \.isWaiting) }
        }
        progress.finish()
        for entry in entries { entry.contender?.close() }
        return entries.map(\.measurement)
    }

    /// Runs one round: the contenders of each workload directly one after the other, with another one first each time.
    private func measure(
        _ turn: Int,
        _ progress: inout Reporting.Progress,
        _ values: WritableKeyPath<Measurement, [Double]>,
        isAwake: Bool,
        _ isChosen: (Workload) -> Bool
    ) {
        var workloads: [Workload] = []
        for entry in entries where isChosen(entry.workload) && !workloads.contains(entry.workload) {
            workloads.append(entry.workload)
        }
        for workload in workloads {
            let group = entries.indices.filter { entries[$0].workload == workload }
            for place in group.indices where !Interruption.isRequested {
                let index = group[(place + turn) % group.count]
                progress.step(entries[index].measurement.recipe.key)
                attempt(index) { [options] entry in
                    let (start, before) = (Clocks.monotonic(), Clocks.processCPU())
                    guard let value = try entry.contender?.measure(for: options.duration) else { return }
                    let (elapsed, used) = (Clocks.monotonic() - start, Clocks.processCPU() - before)
                    entry.measurement[keyPath: values].append(value)
                    guard workload.isWaiting, !isAwake else { return }
                    entry.measurement.busyCores.append(Double(used) / Double(max(1, elapsed)))
                }
            }
        }
    }

    /// Calls `body` with a contender. The first error ends the contender.
    private func attempt(_ index: Int, _ body: (inout Entry) throws -> Void) {
        guard entries[index].measurement.isMeasured else { return }
        do {
            try body(&entries[index])
        } catch let error as Missing {
            entries[index].measurement.outcome = .skipped(error.description)
        } catch let error as SystemFailure {
            entries[index].measurement.outcome = .failed(error.message)
        } catch {
            entries[index].measurement.outcome = .failed("\(error)")
        }
        // A failed contender is not closed, because closing may hang as well.
        if !entries[index].measurement.isMeasured { entries[index].contender = nil }
    }
}

extension Clocks {
    /// The processor time of all threads of this process, in nanoseconds.
    fileprivate static func processCPU() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }
}
