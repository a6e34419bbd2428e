//! Output for other tools: OpenMetrics text, and Influx lines as ClusterCockpit reads them.

pub mod lines;
pub mod openmetrics;
