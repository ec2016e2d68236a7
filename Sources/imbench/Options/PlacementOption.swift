import Measuring
import Transports

extension Setting {
    /// Returns the option that places threads on cores.
    static func placement(
        _ property: WritableKeyPath<Target, Placement> & Sendable,
        clients: String = "client"
    ) -> Setting {
        Setting(
            "placement",
            .word,
            property,
            "\(clients) and server on different cores, on one core, or where the scheduler puts them"
        )
    }
}
