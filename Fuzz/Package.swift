// swift-tools-version: 6.1
import PackageDescription

// Built by scripts/checks/fuzz alone, with the sanitizers. The targets' functions are compiled into the root package's tests
// too, which replay the committed files.

let package = Package(
    name: "fuzz",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "im-transports", path: "..")],
    targets: [
        .executableTarget(
            name: "fuzz",
            dependencies: [
                .product(name: "TransportAPI", package: "im-transports"),
                .product(name: "Codecs", package: "im-transports"),
                .product(name: "Protocols", package: "im-transports"),
                .product(name: "Transports", package: "im-transports"),
                .product(name: "EmbeddedServers", package: "im-transports"),
                .product(name: "OutboxStores", package: "im-transports"),
                .product(name: "Transfers", package: "im-transports"),
            ],
            path: ".",
            exclude: ["Corpora", "Crashes", "Dictionaries", "Tests"],
            sources: ["Main", "Targets"],
            // libFuzzer has the main function.
            swiftSettings: [.unsafeFlags(["-parse-as-library"])]
        )
    ],
    swiftLanguageModes: [.v6]
)
