import TransportAPI

/// What `imbench crowd` holds, or lets loose.
struct CrowdOptions: Sendable, Equatable {
    /// Those that can be idle.
    static let transports = ["ws", "tcp", "mqtt", "mqtt+ws"]
    static let mostLinks = 1_000_000

    /// How many idle clients; beside hostile ones none, if not asked for.
    var links = 10_000
    /// Whether the user asked for so many, and not for what the system allows of the default.
    var areLinksGiven = false
    /// How long they are held; how long each attack is measured at least.
    var hold = Duration.seconds(3)
    var isHostile = false
    /// How many hostile clients there are at a time.
    var attackers = 100
    var attacks = HostileKind.allCases
    var assertions: [CrowdAssertion] = []
}

extension OptionTable {
    static let crowd: [OptionRow] = [
        OptionRow(
            name: "links",
            placeholder: "N",
            group: .load,
            commands: [.crowd],
            summary: "how many idle clients are held, in a process of their own; with --hostile beside them, if given",
            shown: { String($0.crowd.links) },
            apply: { (options, text, _) throws(UsageError) in
                options.crowd.links = try OptionValue.integer(text, "links", in: 1...CrowdOptions.mostLinks)
            }
        ),
        OptionRow(
            name: "hold",
            placeholder: "TIME",
            group: .load,
            commands: [.crowd],
            summary: "how long they are held and pinged; with --hostile, how long each attack lasts at least",
            shown: { DurationText.format($0.crowd.hold) },
            apply: { (options, text, _) throws(UsageError) in
                let range = Duration.milliseconds(100)...Duration.seconds(3600)
                options.crowd.hold = try DurationText.parse(text, "hold", in: range)
            }
        ),
        OptionRow(
            name: "hostile",
            group: .what,
            commands: [.crowd],
            summary: "lets hostile clients loose, and measures what others feel of them; ends with status 99 if one of "
                + "the server's limits is not kept or not reached, or others lose anything",
            shown: { $0.crowd.isHostile ? "yes" : "no" },
            apply: { (options, _, _) throws(UsageError) in options.crowd.isHostile = true }
        ),
        OptionRow(
            name: "attackers",
            placeholder: "N",
            group: .load,
            commands: [.crowd],
            summary: "how many hostile clients there are at a time",
            requires: "hostile",
            shown: { $0.crowd.isHostile ? String($0.crowd.attackers) : nil },
            apply: { (options, text, _) throws(UsageError) in
                options.crowd.attackers = try OptionValue.integer(text, "attackers", in: 2...10_000)
            }
        ),
        OptionRow(
            name: "attack",
            placeholder: "LIST",
            group: .what,
            commands: [.crowd],
            summary: "what hostile clients do",
            allowed: { _ in HostileKind.allCases.map(\.rawValue) },
            requires: "hostile",
            shown: { $0.crowd.isHostile ? $0.crowd.attacks.map(\.rawValue).joined(separator: ",") : nil },
            apply: { (options, text, _) throws(UsageError) in
                let names = try OptionValue.words(text, "attack", of: HostileKind.allCases.map(\.rawValue))
                options.crowd.attacks = names.compactMap(HostileKind.init)
            }
        ),
    ]

    /// What several options of `imbench crowd` say together.
    static func finishCrowd(_ options: inout Options, _ given: Set<String>) throws(UsageError) {
        options.crowd.areLinksGiven = given.contains("links")
        if !given.contains("repeat") { options.repeats = 1 }
        guard options.crowd.isHostile || options.repeats == 1 else { throw UsageError("--repeat needs --hostile") }
        if options.crowd.isHostile {
            if !options.crowd.areLinksGiven { options.crowd.links = 0 }
            guard options.crowd.links <= IdleCrowd.linksPerAddress else {
                throw UsageError("--links: at most \(IdleCrowd.linksPerAddress) beside hostile clients")
            }
        }
        // Idle clients over UDP are none whose silence costs the server a descriptor, or whose ping is sure to be answered.
        let hasDatagrams = options.crowd.isHostile && options.crowd.links == 0
        let known = CrowdOptions.transports + (hasDatagrams ? ["udp"] : [])
        guard given.contains("transport") else {
            return options.transports = options.crowd.isHostile ? known : ["ws"]
        }
        if let other = options.transports.first(where: { !known.contains($0) }) {
            throw UsageError("--transport: 'crowd' knows \(OptionValue.list(known)), not \(other)")
        }
    }
}
