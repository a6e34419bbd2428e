//! What other tools read: OpenMetrics text, and Influx lines as ClusterCockpit takes them.

pub mod lines;
pub mod openmetrics;
