// swift-tools-version: 6.1
import PackageDescription

// The root package has no dependencies, on purpose: whatever is compared with other people's packages
// lives in Benchmarks/, which has a manifest of its own.
// The commands spend their time in the modules that they call. Not to optimise them and their reports shortens
// the release build of imbench. No library for users has such a module.
let unoptimized: [SwiftSetting] = [.unsafeFlags(["-Onone"], .when(configuration: .release))]

let package = Package(
    name: "im-transports",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "TransportAPI", targets: ["TransportAPI"]),
        .library(name: "Codecs", targets: ["Codecs"]),
        .library(name: "Protocols", targets: ["Protocols"]),
        .library(name: "Transports", targets: ["Transports"]),
        .library(name: "EmbeddedServers", targets: ["EmbeddedServers"]),
        .library(name: "OutboxStores", targets: ["OutboxStores"]),
        .library(name: "Transfers", targets: ["Transfers"]),
        .library(name: "History", targets: ["History"]),
        .library(name: "FoundationSupport", targets: ["FoundationSupport"]),
        .library(name: "TransportContract", targets: ["TransportContract"]),
        .executable(name: "imbench", targets: ["imbench"]),
        // For Benchmarks/ alone. It has no public declarations.
        .library(name: "BenchmarkSupport", targets: ["CommandSupport", "Measuring", "Reporting", "TrialCertificates"]),
    ],
    targets: [
        // Queues, a heap, Base64, UTF-8, a network path: what several modules need and no standard library has.
        .target(name: "Primitives"),
        .target(name: "TransportAPI", dependencies: ["Primitives"]),
        .target(name: "Codecs", dependencies: ["Primitives"]),
        // The protocols as values: bytes in, bytes out. They import neither sockets nor codecs.
        .target(name: "Protocols", dependencies: ["TransportAPI", "Primitives"]),
        .target(name: "CSocketIO"),
        .target(name: "SocketIO", dependencies: ["CSocketIO", "Primitives"]),
        .target(
            name: "Transports",
            dependencies: ["Protocols", "OutboxStores", "TransportAPI", "Codecs", "SocketIO", "Primitives"]
        ),
        .target(name: "EmbeddedServers", dependencies: ["Transports", "Protocols", "Primitives"]),
        // The stores of an outbox that survives the end of the app: a file, and a database.
        .target(name: "OutboxStores", dependencies: ["TransportAPI", "SocketIO"]),
        // Files beside the messages of a conversation.
        .target(name: "Transfers", dependencies: ["TransportAPI", "SocketIO", "Primitives"]),
        // The messages of rooms, for devices that were away.
        .target(name: "History", dependencies: ["OutboxStores", "TransportAPI", "Codecs", "SocketIO", "Primitives"]),
        // Codable messages, other values of Foundation, and URLSession. No other library imports Foundation.
        .target(
            name: "FoundationSupport",
            dependencies: ["Transports", "Protocols", "TransportAPI", "Codecs", "SocketIO", "Primitives"],
            resources: [.copy("PrivacyInfo.xcprivacy")]
        ),
        // The contract of every transport, as checks that a test of any package can run.
        .target(name: "TransportContract", dependencies: ["EmbeddedServers", "Transports", "TransportAPI"]),
        // A kernel, a clock and a network of a seed, in which everything above runs unchanged.
        .target(name: "CSimulation"),
        // Network namespaces and packets, for imbench.
        .target(name: "CNetwork"),
        .target(name: "Simulation", dependencies: ["SocketIO", "CSocketIO", "CSimulation", "Primitives"]),
        // Certificates that are made for one run. No product of a library has them, only imbench and the tests.
        .target(name: "TrialCertificates", dependencies: ["Transports", "SocketIO"]),
        // What imbench and imlab share: files and terminals, clocks and statistics, options and reports, networks between
        // namespaces, crowds of clients.
        .target(name: "CommandSupport", dependencies: ["SocketIO", "CSocketIO", "TransportAPI"]),
        .target(
            name: "Measuring",
            dependencies: [
                "CommandSupport", "CPages", "Transports", "Protocols", "TransportAPI", "Codecs", "SocketIO",
                "CSocketIO",
            ]
        ),
        .target(
            name: "Reporting",
            dependencies: [
                "CommandSupport", "CPages", "Transports", "Protocols", "TransportAPI", "SocketIO", "TrialCertificates",
                "Primitives",
            ],
            swiftSettings: unoptimized
        ),
        .target(
            name: "EmulatedNetworks",
            dependencies: [
                "CommandSupport", "Measuring", "CNetwork", "Transports", "Protocols", "TransportAPI", "SocketIO",
                "CSocketIO", "TrialCertificates", "Primitives",
            ]
        ),
        .target(
            name: "Crowds",
            dependencies: [
                "CommandSupport", "Measuring", "Transports", "Protocols", "TransportAPI", "SocketIO",
                "TrialCertificates",
            ]
        ),
        // What a measurement does for each message: the echo, the pictures beside it, the fan-out, the storm. It is compiled
        // with optimisation, whatever its commands are.
        .target(
            name: "Workloads",
            dependencies: [
                "CommandSupport", "Measuring", "Transports", "Protocols", "TransportAPI", "Codecs", "SocketIO",
                "TrialCertificates", "Primitives",
            ]
        ),
        // The web pages, their styles and scripts, and the sample texts.
        .target(name: "CPages", exclude: ["files"]),
        .executableTarget(
            name: "imbench",
            dependencies: [
                "CommandSupport", "Measuring", "Workloads", "Reporting", "EmulatedNetworks", "Crowds", "CPages",
                "EmbeddedServers", "OutboxStores",
                "Transports", "Protocols", "TransportAPI", "Codecs", "SocketIO", "CSocketIO", "TrialCertificates",
                "Primitives",
            ],
            swiftSettings: unoptimized
        ),
        // The laboratory of the developers: simulation, hostile clients, steps for a profiler. It is no product.
        .executableTarget(
            name: "imlab",
            dependencies: [
                "CommandSupport", "Measuring", "Reporting", "Crowds", "Simulation", "EmbeddedServers", "OutboxStores",
                "Transfers", "Transports", "Protocols", "TransportAPI", "Codecs", "SocketIO", "CSocketIO",
                "TrialCertificates", "Primitives",
            ]
        ),
        // All tests are one program. This target sets how many of them run at a time.
        .target(name: "CTestWidth", path: "Tests/CTestWidth"),
        .executableTarget(
            name: "CloseAndExit",
            dependencies: ["TransportAPI", "Transports", "SocketIO"],
            path: "Tests/CloseAndExit"
        ),
        .executableTarget(
            name: "SubmitUntilKilled",
            dependencies: ["TransportAPI", "Transports"],
            path: "Tests/SubmitUntilKilled"
        ),
        .executableTarget(
            name: "ReceiveUntilKilled",
            dependencies: ["TransportAPI", "Transports"],
            path: "Tests/ReceiveUntilKilled"
        ),
        .executableTarget(
            name: "TransferBesideChat",
            dependencies: [
                "Transfers", "EmulatedNetworks", "Measuring", "CommandSupport", "TransportAPI", "Transports",
                "SocketIO",
            ],
            path: "Tests/TransferBesideChat"
        ),
        // Helpers that the tests of several modules share. They see no more of a module than the other modules do.
        .target(
            name: "TestSupport",
            dependencies: ["Protocols", "TransportAPI", "SocketIO", "Transports", "TrialCertificates", "Primitives"],
            path: "Tests/TestSupport"
        ),
        // Tests/ has the same folders as Sources/.
        .testTarget(name: "PrimitivesTests", dependencies: ["Primitives"]),
        .testTarget(
            name: "TransfersTests",
            dependencies: [
                "Transfers", "EmbeddedServers", "Transports", "TransportAPI", "SocketIO", "Primitives",
                "TrialCertificates", "TestSupport",
            ]
        ),
        .testTarget(
            name: "HistoryTests",
            dependencies: [
                "History", "OutboxStores", "EmbeddedServers", "Transports", "TransportAPI", "SocketIO", "TestSupport",
            ]
        ),
        .testTarget(name: "TransportAPITests", dependencies: ["TransportAPI", "SocketIO", "TestSupport"]),
        .testTarget(name: "CodecsTests", dependencies: ["Codecs"]),
        // Transports has the compressor, and the rules for changes of addresses, that some cores are run with.
        .testTarget(
            name: "ProtocolsTests",
            dependencies: ["Protocols", "TransportAPI", "SocketIO", "Transports", "TestSupport"]
        ),
        .testTarget(
            name: "SocketIOTests",
            dependencies: [
                "SocketIO", "CSocketIO", "Primitives", "TrialCertificates", "TestSupport", "CTestWidth",
            ]
        ),
        .testTarget(
            name: "TransportsTests",
            dependencies: [
                "Transports", "Protocols", "TransportAPI", "Codecs", "EmbeddedServers", "SocketIO", "CSocketIO",
                "TransportContract", "TrialCertificates", "TestSupport",
            ]
        ),
        .testTarget(
            name: "OutboxStoresTests",
            dependencies: ["OutboxStores", "TransportAPI", "SocketIO", "TestSupport"]
        ),
        .testTarget(
            name: "FoundationSupportTests",
            dependencies: [
                "FoundationSupport", "Transports", "Protocols", "TransportAPI", "Codecs", "SocketIO", "EmbeddedServers",
                "TransportContract", "TrialCertificates", "TestSupport",
            ]
        ),
        .testTarget(
            name: "SimulationTests",
            dependencies: ["Simulation", "EmbeddedServers", "Transports", "SocketIO", "Primitives"]
        ),
        .testTarget(
            name: "EmbeddedServersTests",
            dependencies: [
                "EmbeddedServers", "Transports", "Protocols", "Primitives", "TrialCertificates", "TestSupport",
            ],
            exclude: ["Foreign/Support"]
        ),
        .testTarget(
            name: "WorkloadsTests",
            dependencies: ["Workloads", "CommandTestSupport", "Measuring", "CommandSupport", "Codecs", "TransportAPI"]
        ),
        // The built commands, as the tests of both run them.
        .target(
            name: "CommandTestSupport",
            dependencies: ["CommandSupport", "Measuring", "Workloads", "Reporting"],
            path: "Tests/CommandTestSupport"
        ),
        .testTarget(
            name: "imbenchTests",
            dependencies: [
                "imbench", "CommandTestSupport", "CommandSupport", "Measuring", "Workloads", "Reporting",
                "EmulatedNetworks", "Crowds", "Protocols", "TrialCertificates", "TestSupport",
            ]
        ),
        .testTarget(
            name: "imlabTests",
            dependencies: [
                "imlab", "CommandTestSupport", "CommandSupport", "Measuring", "Reporting", "Crowds", "Simulation",
                "Protocols", "TrialCertificates", "TestSupport",
            ]
        ),
        // The functions that Fuzz/, a package of its own, gives any bytes; here they replay the committed ones.
        .testTarget(
            name: "FuzzTests",
            dependencies: [
                "TransportAPI", "Codecs", "SocketIO", "Protocols", "Transports", "EmbeddedServers", "OutboxStores",
                "Transfers", "Primitives",
            ],
            path: "Fuzz",
            exclude: ["Package.swift", "Main", "Corpora", "Crashes", "Dictionaries"],
            sources: ["Targets", "Tests"]
        ),
    ],
    swiftLanguageModes: [.v6]
)
