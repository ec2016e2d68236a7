import Foundation

/// The processor time that the machine has used since its start, by who used it. The difference of two samples tells what
/// else the machine did during a measurement.
package struct ProcessorUse: Sendable, Hashable {
    /// Nanoseconds on the monotonic clock.
    var time: Int64
    /// Involuntary context switches of this process.
    var involuntarySwitches: Int
    /// Seconds of processor time; `nil` where the system does not tell (all but Linux).
    var machine: Machine?

    struct Machine: Sendable, Hashable {
        /// Used by this process and the processes that it started.
        var own: Double
        /// Used by all other processes that this one can see.
        var others: Double
        /// Used by all processes, also by those that this one cannot see, as from within a container.
        var all: Double
        /// Given to other virtual machines while this one had work to do.
        var stolen: Double
    }

    init(time: Int64, involuntarySwitches: Int, machine: Machine?) {
        (self.time, self.involuntarySwitches, self.machine) = (time, involuntarySwitches, machine)
    }

    /// The use until now.
    package static func now() -> ProcessorUse {
        var usage = rusage()
        // RUSAGE_SELF is 0 everywhere, with a type that differs between systems.
        getrusage(0, &usage)
        return ProcessorUse(
            time: Clocks.monotonic(),
            involuntarySwitches: Int(usage.ru_nivcsw),
            machine: machineNow()
        )
    }

    private static func machineNow() -> Machine? {
        #if os(Linux)
        let ticks = Double(sysconf(Int32(_SC_CLK_TCK)))
        guard ticks > 0, let total = readFile("/proc/stat", limit: 1 << 20).flatMap(MachineTicks.init) else {
            return nil
        }
        let processes = ((try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []).compactMap { name in
            Int32(name).flatMap { id in readFile("/proc/\(id)/stat", limit: 4096).flatMap { ProcessTicks(id, $0) } }
        }
        let own = ProcessTicks.descendants(of: getpid(), among: processes)
        func sum(_ processes: some Sequence<ProcessTicks>) -> Double { processes.reduce(0) { $0 + $1.used } / ticks }
        return Machine(
            own: sum(processes.lazy.filter { own.contains($0.id) }),
            others: sum(processes.lazy.filter { !own.contains($0.id) && !$0.isOfKernel }),
            all: total.used / ticks,
            stolen: total.stolen / ticks
        )
        #else
        return nil
        #endif
    }
}

/// The first line of `/proc/stat` (proc_stat(5)): the time of all processors together.
struct MachineTicks: Sendable, Hashable {
    /// In user mode, also with a low priority, and in kernel mode.
    var used: Double
    var stolen: Double

    init?(_ text: String) {
        let words = text.prefix { $0 != "\n" }.split(separator: " ")
        guard words.count >= 9, words[0] == "cpu" else { return nil }
        let numbers = words.dropFirst().map { Double($0) ?? 0 }
        (used, stolen) = (numbers[0] + numbers[1] + numbers[2], numbers[7])
    }
}

/// The line of `/proc/<pid>/stat` (proc_pid_stat(5)).
struct ProcessTicks: Sendable, Hashable {
    var id: Int32
    var parent: Int32
    /// In user and in kernel mode, with that of ended children that were waited for.
    var used: Double

    /// The threads of the kernel are children of process 2. They also work for this process.
    var isOfKernel: Bool { id == 2 || parent == 2 }

    init?(_ id: Int32, _ text: String) {
        // The name of the program stands in parentheses, and may have spaces and parentheses itself.
        guard let end = text.lastIndex(of: ")") else { return nil }
        let words = text[text.index(after: end)...].split(separator: " ")
        guard words.count > 14, let parent = Int32(words[1]) else { return nil }
        self.init(id: id, parent: parent, used: words[11...14].reduce(0) { $0 + (Double($1) ?? 0) })
    }

    init(id: Int32, parent: Int32, used: Double) { (self.id, self.parent, self.used) = (id, parent, used) }

    /// The process and those that it started, with those that these started.
    static func descendants(of process: Int32, among all: [ProcessTicks]) -> Set<Int32> {
        var (found, new): (Set<Int32>, Set<Int32>) = ([process], [process])
        while !new.isEmpty {
            new = Set(all.filter { new.contains($0.parent) }.map(\.id)).subtracting(found)
            found.formUnion(new)
        }
        return found
    }
}
