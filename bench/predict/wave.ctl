; Light of a point source in a box of glass: halo exchange in three dimensions.
(set! geometry-lattice (make lattice (size 5 5 5)))
(set! geometry (list (make block (center 0 0 0) (size 3 3 3) (material (make dielectric (epsilon 2.25))))))
(set! sources (list (make source (src (make continuous-src (frequency 0.5))) (component Ez) (center 0 0 0))))
(set! resolution 8)
(run-until 6)
