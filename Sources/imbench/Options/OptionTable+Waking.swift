import SocketIO
import TransportAPI

extension OptionTable {
    /// What a wake-up costs in a run, and whether there is one.
    static let waking: [OptionRow] = [
        OptionRow(
            name: "placement",
            placeholder: "WORD",
            group: .load,
            commands: [.run],
            summary:
                "client and server, and the two sides of each floor, on different cores, on one, or as the scheduler likes",
            allowed: { _ in Placement.allCases.map(\.rawValue) },
            shown: { $0.placement.rawValue },
            apply: { (options, text, _) throws(UsageError) in
                guard let placement = Placement(rawValue: text.lowercased()) else {
                    throw .unknown("placement", text, allowed: Placement.allCases.map(\.rawValue))
                }
                options.placement = placement
            }
        ),
        OptionRow(
            name: "awake",
            group: .load,
            commands: [.run],
            summary: "keep the cores from sleeping: compares code, not power management",
            shown: { $0.awake ? "yes" : "no" },
            apply: { (options, _, _) throws(UsageError) in options.awake = true }
        ),
        OptionRow(
            name: "busy-poll",
            placeholder: "TIME",
            group: .load,
            commands: [.run],
            summary:
                "how long client and server poll before they sleep, as in 50us, or auto: as it pays; CPU time counts it. Default: never",
            shown: { options in
                switch options.polling {
                case .never: nil
                case .adaptive: "auto"
                case .always(let time): DurationText.format(time)
                }
            },
            apply: { (options, text, _) throws(UsageError) in
                guard text != "auto" else { return options.polling = .adaptive }
                guard let time = try? DurationText.parse(text, "busy-poll", in: .zero ... .seconds(1)) else {
                    throw UsageError("--busy-poll: '\(text)' is neither auto nor a duration up to 1s, such as 50us")
                }
                options.polling = time == .zero ? .never : .always(for: time)
            }
        ),
    ]
}
