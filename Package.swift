// swift-tools-version: 6.1
import PackageDescription

// The root package has no dependencies, on purpose: whatever is compared with other people's packages
// lives in Benchmarks/, which has a manifest of its own.
let package = Package(
    name: "im-transports",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "TransportAPI", targets: ["TransportAPI"]),
        .library(name: "Codecs", targets: ["Codecs"]),
        .library(name: "Protocols", targets: ["Protocols"]),
        .library(name: "Transports", targets: ["Transports"]),
        .library(name: "EmbeddedServers", targets: ["EmbeddedServers"]),
        .library(name: "TransportContract", targets: ["TransportContract"]),
        .executable(name: "imbench", targets: ["imbench"]),
    ],
    targets: [
        // Queues, a heap, Base64 and UTF-8: what several modules need and no standard library has.
        .target(name: "Primitives"),
        .target(name: "TransportAPI", dependencies: ["Primitives"]),
        .target(name: "Codecs", dependencies: ["Primitives"]),
        // The protocols as values: bytes in, bytes out. They import neither sockets nor codecs.
        .target(name: "Protocols", dependencies: ["TransportAPI", "Primitives"]),
        .target(name: "CSocketIO"),
        .target(name: "SocketIO", dependencies: ["CSocketIO", "Primitives"]),
        .target(name: "Transports", dependencies: ["Protocols", "TransportAPI", "Codecs", "SocketIO", "Primitives"]),
        .target(name: "EmbeddedServers", dependencies: ["Transports", "Protocols", "Primitives"]),
        // The contract of every transport, as checks that a test of any package can run.
        .target(name: "TransportContract", dependencies: ["EmbeddedServers", "Transports", "TransportAPI"]),
        // A kernel, a clock and a network of a seed, in which everything above runs unchanged.
        .target(name: "CSimulation"),
        // Network namespaces and packets, for imbench.
        .target(name: "CNetwork"),
        .target(name: "Simulation", dependencies: ["SocketIO", "CSocketIO", "CSimulation", "Primitives"]),
        // Certificates that are made for one run. No product of a library has them, only imbench and the tests.
        .target(name: "TrialCertificates", dependencies: ["Transports", "SocketIO"]),
        .executableTarget(
            name: "imbench",
            dependencies: [
                "EmbeddedServers", "Transports", "Protocols", "TransportAPI", "Codecs", "SocketIO", "CSocketIO",
                "CNetwork", "Simulation", "TrialCertificates", "Primitives",
            ],
            resources: [
                .embedInCode("Corpus/messages.tsv"), .embedInCode("Report/report.css"),
                .embedInCode("Report/Charts/charts.css"),
                .embedInCode("Serve/Page/page.html"), .embedInCode("Serve/Page/page.css"),
                .embedInCode("Serve/Page/session.js"), .embedInCode("Serve/Page/conversation.js"),
                .embedInCode("Serve/Page/page.js"),
                .embedInCode("Report/sort.js"),
            ]
        ),
        // All tests are one program. This target sets how many of them run at a time.
        .target(name: "CTestWidth", path: "Tests/CTestWidth"),
        .executableTarget(
            name: "CloseAndExit",
            dependencies: ["TransportAPI", "Transports", "SocketIO"],
            path: "Tests/CloseAndExit"
        ),
        // Helpers that the tests of several modules share. They see no more of a module than the other modules do.
        .target(
            name: "TestSupport",
            dependencies: ["Protocols", "TransportAPI", "SocketIO", "Transports", "TrialCertificates"],
            path: "Tests/TestSupport"
        ),
        // Tests/ has the same folders as Sources/.
        .testTarget(name: "PrimitivesTests", dependencies: ["Primitives"]),
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
            name: "SimulationTests",
            dependencies: ["Simulation", "EmbeddedServers", "Transports", "SocketIO", "Primitives"]
        ),
        .testTarget(
            name: "EmbeddedServersTests",
            dependencies: ["EmbeddedServers", "Transports", "Protocols", "TrialCertificates", "TestSupport"],
            exclude: ["Foreign/Support"]
        ),
        .testTarget(name: "imbenchTests", dependencies: ["imbench", "Protocols", "TrialCertificates", "TestSupport"]),
        // The functions that Fuzz/, a package of its own, gives any bytes; here they replay the committed ones.
        .testTarget(
            name: "FuzzTests",
            dependencies: [
                "TransportAPI", "Codecs", "SocketIO", "Protocols", "Transports", "EmbeddedServers", "Primitives",
            ],
            path: "Fuzz",
            exclude: ["Package.swift", "Main", "Corpora", "Crashes", "Dictionaries"],
            sources: ["Targets", "Tests"]
        ),
    ],
    swiftLanguageModes: [.v6]
)
